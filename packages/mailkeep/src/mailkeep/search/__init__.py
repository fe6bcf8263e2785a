"""Listing and searching stored mail: one scope, one set of filters, one order.

`list_emails` gives a page of the timeline, `search_emails` the best matches of a typed query; both validate before they
read and raise the ReaderErrors of docs/spec/agents.md section 8.
"""
