-- For the embedded database, which has no process that would do it: frees the space of purged rows and keeps
-- transaction ids from running out.
vacuum
