"""One torch thread in tests, as in runs: threads that compete for two cores only slow each other down.

And Ctrl-C means Ctrl-C: a script's background job ignores it, and every process that a test starts would do so too.
"""

from __future__ import annotations

import signal

import torch

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
