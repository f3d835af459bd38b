"""The memory as a server of the Model Context Protocol, which agents ask over standard input and output.

Source: docs/spec/mcp.md. Only `server` knows the protocol's SDK; the command ``mcp`` alone imports it.
"""
