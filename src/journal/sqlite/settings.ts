/**
 * full: every commit is synced to the disk before it is acknowledged, and survives a power cut. normal: a
 * power cut or a crash of the operating system may lose the last commits; the death of the process alone
 * loses nothing. Neither damages the database.
 */
export type Synchronous = "full" | "normal"
