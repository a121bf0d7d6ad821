-- Those of the keys ($1) that belong to an artifact.
select key from umbra.artifacts where key = any ($1::text::text[])
