"""What the library's tests share: a real PostgreSQL, a host's control plane, frames of our own invention."""
