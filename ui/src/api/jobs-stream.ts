/** Changes of all jobs of the owner, for the list. A tab that has been hidden for a minute closes its stream. */
import { useQueryClient } from "@tanstack/react-query"
import { useEffect, useState } from "react"
import type { JobStatus } from "../../../src/core/index.ts"
import { buildUrl } from "./http.ts"
import { readStream } from "./stream.ts"
import type { Paused } from "./types.ts"

export interface StreamedJob {
  readonly job_id: string
  readonly workflow: string
  readonly workflow_version: number | null
  readonly status: JobStatus
  readonly progress_pct: number
  readonly progress_message: string | null
  readonly created_at: string
  readonly updated_at: string
  readonly finished_at: string | null
  readonly labels: { readonly [name: string]: string }
  readonly error: {
    readonly code: string
    readonly message: string
    readonly node?: string
    readonly item?: number
  } | null
  readonly reason: string | null
  /** Absent: it is not paused. */
  readonly paused?: Paused
}

const HIDDEN_MS = 60_000
const FIRST_RETRY_MS = 1000
const LONGEST_RETRY_MS = 30_000

interface Options {
  readonly onJob: (job: StreamedJob, isChange: boolean) => void
  /** `since`: when the connection was lost. */
  readonly onConnection: (since: number | null) => void
}

/** Returns how to stop. */
export function followJobs({ onJob, onConnection }: Options): () => void {
  let stream = new AbortController()
  let lastId = ""
  let tries = 0
  let lostSince: number | null = null
  let retryTimer: ReturnType<typeof setTimeout> | undefined
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined
  let isHidden = false

  const connect = () => {
    clearTimeout(retryTimer)
    stream.abort()
    stream = new AbortController()
    const { signal } = stream
    const lost = () => {
      if (signal.aborted) return
      tries++
      lostSince ??= Date.now()
      onConnection(lostSince)
      retryTimer = setTimeout(
        connect,
        Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(10, tries - 1)),
      )
    }
    readStream({
      address: buildUrl("/jobs/stream", lastId === "" ? {} : { last_event_id: lastId }),
      signal,
      onOpen: () => {
        tries = 0
        lostSince = null
        onConnection(null)
      },
      onEvent: (event, data, id) => {
        if (id !== "") lastId = id
        if (event === "snapshot") for (const job of (data as { jobs: StreamedJob[] }).jobs) onJob(job, false)
        else if (event === "job") onJob(data as StreamedJob, true)
        else if (event === "end") lost()
      },
    }).then(lost, lost)
  }
  const visibility = () => {
    clearTimeout(hiddenTimer)
    if (document.hidden)
      hiddenTimer = setTimeout(() => {
        isHidden = true
        clearTimeout(retryTimer)
        stream.abort()
      }, HIDDEN_MS)
    else if (isHidden) {
      isHidden = false
      connect()
    }
  }
  document.addEventListener("visibilitychange", visibility)
  connect()
  return () => {
    document.removeEventListener("visibilitychange", visibility)
    clearTimeout(retryTimer)
    clearTimeout(hiddenTimer)
    stream.abort()
  }
}

/**
 * Reads the queries below `key` again when jobs change: at most every `restMs`, and not sooner than `leastMs` after a
 * change, so that a burst of changes is one request.
 */
export function useRefetchOnChange(key: string, restMs: number, leastMs = restMs) {
  const queries = useQueryClient()
  const [lostSince, setLost] = useState<number | null>(null)
  const [refresh] = useState(() => () => void queries.invalidateQueries({ queryKey: [key] }))
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let last = Date.now()
    const changed = () => {
      timer ??= setTimeout(
        () => {
          timer = undefined
          last = Date.now()
          refresh()
        },
        Math.max(leastMs, last + restMs - Date.now()),
      )
    }
    const stop = followJobs({ onJob: (_, isChange) => isChange && changed(), onConnection: setLost })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [refresh, restMs, leastMs])
  return { lostSince, refresh }
}
