"""
The fast connection: from a socket to `dispatch` and back, with deadlines and limits of its own.

`connection` receives bytes, `incoming` collects one request, `answers` sends the replies one after
the other. `flow_control` stops reading and writing, `outbox` sends what is ready at the end of a
turn, `shared_state` is what all connections of one server share.
"""
