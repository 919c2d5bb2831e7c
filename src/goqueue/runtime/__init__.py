"""Where asyncio starts: owners of logs, the shared fsync, upkeep, and loading at start.

Everything here runs on one event loop. What blocks is handed to threads as a value (see `goqueue.log.flush`), and its
outcome comes back to the loop, so no state is ever touched by two threads.
"""
