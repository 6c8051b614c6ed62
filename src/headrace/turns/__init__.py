"""Work of several owners on few threads: whose turn it is, and the threads that do it."""
