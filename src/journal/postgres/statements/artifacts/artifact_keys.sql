-- Those of the keys (@keys) that belong to an artifact.
select key from umbra.artifacts where key = any (@keys::text::text[])
