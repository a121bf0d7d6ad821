import { expression, member } from "./expression.ts"
import { refTo } from "./ref.ts"
import type { Ref } from "./types.ts"

/** What a template can read of the job itself. */
export interface JobInfo {
  readonly id: string
  readonly workflow: string
  readonly workflow_version: number
  readonly owner: string
  readonly created_at: string
}

/** What every builder can read, whatever it builds. */
export class JobRefs {
  protected readonly origins: ReadonlySet<object> = new Set([this])
  readonly job: Ref<JobInfo> = refTo(expression("job", this.origins, true))

  /** A secret by its name: filled in at the last moment, stored nowhere. For the config of a handler or adapter only. */
  secret(name: string): Ref<string> {
    return refTo(member(expression("secrets", this.origins, true), name))
  }
}
