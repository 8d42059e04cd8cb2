"""The fault-detection agent: runs beside the training processes and reports what it sees."""
