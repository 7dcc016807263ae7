"""What identifies a run, so that the checkpoint of another is not continued."""

import hashlib
import json
from typing import Any

from torch import Tensor


def fingerprint(settings: Any, *tensors: Tensor) -> str:
    """A digest of settings that are JSON, and of the data and the windows as tensors."""
    digest = hashlib.sha256(json.dumps(settings).encode())
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
