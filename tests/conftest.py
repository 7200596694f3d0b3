"""What holds for all tests of the core."""

import signal

# In the background of a shell a process ignores SIGINT, and so does all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
