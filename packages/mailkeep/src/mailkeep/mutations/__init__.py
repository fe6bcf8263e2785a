"""Changes of the remote mailbox: a durable intent first, then its commands, then its recognition in what comes back.

`record` writes intents down and contacts nobody; `converge` issues their commands; what synchronization observes is
attributed to them by `recognition`; `operate` holds the acts of people on changes that are stuck.
"""
