"""
Export and import: an extension, or a part of it, as lines of JSON.

    records    one row as one line, and one line as a row
    lines      a whole file: its first and its last line, its digest, compression
    part       which rows belong to a chat, a character or an instance
    exporting  writes a file
    tables     writes plain values for spreadsheets
    importing  takes a file over with its history
    merging    takes the state of a file over as one revision

docs/DESIGN.md describes the format.
"""
