"""Octets in, message out: reads mail of any quality and never raises on it. Pure, no I/O."""
