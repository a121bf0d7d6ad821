import { expression, member } from "./expression.ts"
import { refTo } from "./ref.ts"
import type { Ref } from "./types.ts"

/** The fields of the job that a template can read. */
export interface JobInfo {
  readonly id: string
  readonly workflow: string
  readonly workflow_version: number
  readonly owner: string
  readonly created_at: string
}

/** What every builder can read. */
export class JobRefs {
  protected readonly origins: ReadonlySet<object> = new Set([this])
  readonly job: Ref<JobInfo> = refTo(expression("job", this.origins, true))

  /** A secret by its name: filled in just before the call, never stored. Only for the config of a handler or adapter. */
  secret(name: string): Ref<string> {
    return refTo(member(expression("secrets", this.origins, true), name))
  }
}
