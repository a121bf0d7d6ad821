-- Receives notifications from other processes.
listen umbra
