-- For a connection whose commits need not be on the disk when they are answered.
set synchronous_commit = off
