"""
The verbs: what can be done with characters, instances and values, and the SQL for it.

A verb is `async def verb(tx, …)` and awaits nothing but `tx`. A reading verb is given a
`Snapshot`; a writing verb is given a `Ledger`, fetches what it needs, raises every refusal,
and hands its changes to `tx.apply` once, at the end. There is no word of HTTP here.
"""
