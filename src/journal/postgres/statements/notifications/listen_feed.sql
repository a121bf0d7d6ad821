-- Receives notifications for live streams from other processes.
listen umbra_feed
