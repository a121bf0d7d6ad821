import type { Fault } from "./faults.ts"

/** What a state keeps of the attempts of its nodes. */

/** An attempt that has ended, while the node is retried. */
export interface EndedAttempt {
  readonly outcome: "failed" | "postponed" | "lost" | "handed_over" | "cancelled"
  /** null: not known, or its handler never began. */
  readonly startedAt: number | null
  readonly endedAt: number
  readonly worker: string | null
  /** When the next attempt was due; null: at once. */
  readonly retryAt: number | null
}

/** `earlier`: in total; `lost`: those among them that were running when their process died. */
export interface SpentAttempts {
  readonly earlier: number
  readonly lost: number
}

export interface AbortedRun {
  readonly attempt: number
  /** The attempt's interval: its start is between them. */
  readonly earliest: number
  readonly endedAt: number
  /** Its start is recorded. */
  isBegun: boolean
  /** How long its handler ran in total; undefined: not reported. */
  ranMs?: number | undefined
  /** The part of its usage that is counted. */
  readonly usage: Usage
}

export interface Usage {
  [key: string]: number
}

export interface Start {
  readonly at: number
  readonly worker: string
  /** No other isolated node ran in its process. */
  readonly alone?: true
  /** Another node died alone since this one last began alone. */
  readonly contested?: true
  /** The start was stored before the handler began (suspects.ts). */
  readonly announced?: true
}

/** The suspicion against a node that lost an attempt (suspects.ts). */
export interface Suspect {
  /** It was known to run when its process died: from now on it runs alone. */
  readonly isolated: boolean
  /** Deaths alone, and how many of them since another node last died alone. */
  readonly deaths: number
  readonly streak: number
  /** When the attempt that last died alone began, and when its death was recorded; 0: none has. */
  readonly begunAt: number
  readonly diedAt: number
  /** How often it ran so long that another suspect joined it. */
  readonly joined: number
}

export interface Polls {
  readonly count: number
  /** Failed polls in a row. */
  readonly errors: number
  readonly fault: Fault | null
}

export interface NodeFault {
  readonly fault: Fault
  /** The node whose failure made this one fail. */
  readonly cause?: number
  /** For a node with `for_each`: the item that failed. */
  readonly item?: number
}

/** A node, or one of its items; without `item`: the node itself. */
export interface TaskRef {
  readonly node: number
  readonly item?: number | undefined
}

/** Why no node of a job begins. */
export interface Pause {
  readonly at: number
  /** The API token or JWT subject that paused it; null: neither. */
  readonly by: string | null
  readonly reason: string | null
  /** Its workflow was paused when the job was submitted: it is resumed with the workflow. */
  readonly ofWorkflow: boolean
}

/** What people have noted on a job. */
export interface Note {
  readonly text: string
  readonly at: number
  /** As for `Pause`. */
  readonly by: string | null
}
