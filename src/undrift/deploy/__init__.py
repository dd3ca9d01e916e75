"""Deployment: the run of a study on real machines, equal to its simulation through every crash.

`coordinator` plays the server and `site` a client, both by the nodes of `engine.nodes`; between them travel the frames of
`frames`, over whatever carries bytes (`carrier`). The round is the transaction, and determinism is the log.
"""
