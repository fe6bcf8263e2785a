"""The routes below /me/inbox, for Starlette, FastAPI and bare ASGI hosts (section 11 of the specification).

`mount.py` is what hosts call; `operations.py` is the table of routes; handlers read, ask the library and answer.
"""
