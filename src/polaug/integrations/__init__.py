"""Where polaug meets training libraries; nothing below this knows one."""

from polaug.integrations.sb3 import augment

__all__ = ["augment"]
