-- Wake-ups from other processes.
listen umbra
