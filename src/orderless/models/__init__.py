"""Members, a file each, and the stack that weighs them."""

from orderless.models.member import Member, State
from orderless.models.run import Run, choose_device
from orderless.models.stack import Stack

__all__ = ["Member", "Run", "Stack", "State", "choose_device"]
