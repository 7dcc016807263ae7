"""The public benchmark sets: a catalogue, downloads, and readers that give arrays."""
