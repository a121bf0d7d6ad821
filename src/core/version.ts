/** Which version a submitted definition becomes (J20): content that equals the latest version's is not a new one. */
export interface StoredVersion {
  readonly version: number
  readonly hash: string
}

export interface NextVersion {
  readonly version: number
  readonly unchanged: boolean
}

/**
 * Compared with the latest only: going back to older content is a change and gets a number of its own,
 * so that `latest` always means what was submitted last. The SQL stores say the same in put_workflow.sql.
 */
export function nextVersion(latest: StoredVersion | undefined, hash: string): NextVersion {
  if (latest === undefined) return { version: 1, unchanged: false }
  if (latest.hash === hash) return { version: latest.version, unchanged: true }
  return { version: latest.version + 1, unchanged: false }
}
