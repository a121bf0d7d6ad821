-- A definition that is no version of its workflow ($1: its hash).
select hash, definition, rules from umbra.definitions where hash = $1::text
