"""Two ways to score, both named, one function for each rule.

`fair` scores every test window, chooses on validation data, and learns scales and thresholds from
training data only. `paper` copies what the published tables did, as far as it can be inferred from
the code they share, so that a figure can be set beside a published one. Which rule differs in what
is on the page `docs/concepts/evaluation_protocols.md`.
"""

from orderless.errors import SettingError

FAIR, PAPER = "fair", "paper"
PROTOCOLS = (FAIR, PAPER)


def check_protocol(protocol: str) -> None:
    """Refuse a protocol that does not exist."""
    if protocol not in PROTOCOLS:
        raise SettingError(f"There is no protocol {protocol!r}; choose {' or '.join(PROTOCOLS)}.")
