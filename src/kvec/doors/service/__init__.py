"""The service: streams of several models behind HTTP, server-sent events and WebSockets."""
