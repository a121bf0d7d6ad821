-- A definition that is no version of its workflow (@hash: its hash).
select hash, definition, rules from umbra.definitions where hash = @hash::text
