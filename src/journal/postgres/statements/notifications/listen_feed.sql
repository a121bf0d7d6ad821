-- News of live streams from other processes.
listen umbra_feed
