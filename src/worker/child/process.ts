/** A child process with a user's handlers, and the messages between it and its parent. */
import type { ChildProcess } from "node:child_process"
import type { Limit } from "../../broker/fair-queue.ts"
import type { Outcome, Task } from "../../broker/port.ts"
import type { ArtifactAnswer, ArtifactQuestion } from "../../core/artifacts.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { Progress } from "../../core/view/view.ts"
import type { Problem } from "../../definition/problem.ts"
import { type ErrorCode, UmbraError } from "../../errors.ts"
import type { Log, LoggedEnd, LoggedLines, LogLevel } from "../../log.ts"
import { startProcess } from "../../thread.ts"

export interface LoadedHandler {
  readonly name: string
  readonly limits: readonly Limit[]
}

export type ToChild =
  /** `artifacts`: the location of the content of artifacts; null: none is configured. */
  | { readonly type: "load"; readonly modules: readonly string[]; readonly artifacts: string | null }
  | {
      readonly type: "check"
      readonly id: number
      readonly text: string
      readonly format: "json" | "yaml" | undefined
    }
  | {
      readonly type: "run"
      readonly id: number
      readonly task: Omit<Task, "parents">
      readonly parents: JsonObject
    }
  | { readonly type: "abort"; readonly id: number; readonly reason: string }
  | { readonly type: "placed"; readonly id: number }
  /** To the question with this number; null: the attempt is over. */
  | {
      readonly type: "answer"
      readonly id: number
      readonly number: number
      readonly answer: ArtifactAnswer | null
    }

/** The usage that the handler has reported so far. */
interface Used {
  readonly usage: JsonObject | undefined
}

/** Of one attempt. */
export type AttemptMessage = { readonly id: number } & (
  | { readonly type: "begun" | "place" }
  | { readonly type: "ask"; readonly number: number; readonly question: ArtifactQuestion }
  | ({ readonly type: "started" } & Used)
  | ({ readonly type: "progress"; readonly progress: Progress } & Used)
  | ({ readonly type: "preview"; readonly data: Json } & Used)
  | ({
      readonly type: "ended"
      readonly outcome: Outcome | null
      readonly logged: LoggedEnd | undefined
    } & Used)
)

export type FromChild =
  | AttemptMessage
  | { readonly type: "lines"; readonly rows: readonly LoggedLines[] }
  | { readonly type: "loaded"; readonly handlers: readonly LoadedHandler[] }
  | { readonly type: "refused"; readonly code: string; readonly message: string }
  | { readonly type: "checked"; readonly id: number; readonly problems: readonly Problem[] }
  | {
      readonly type: "log"
      readonly level: LogLevel
      readonly fields: Record<string, unknown>
      readonly message: string | undefined
    }

export class HandlerProcess {
  readonly handlers = new Map<string, LoadedHandler>()
  readonly pid: number | undefined
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<string>
  isAlive = true
  /** Called for each message of an attempt. */
  onAttempt: (message: AttemptMessage) => void = () => {}
  /** Called with what handlers have logged. */
  onLines: (rows: readonly LoggedLines[]) => void = () => {}
  readonly #child: ChildProcess
  readonly #log: Log
  readonly #checks = new Map<number, (problems: readonly Problem[]) => void>()
  #nextCheck = 0
  #onLoaded: (error: UmbraError | null) => void = () => {}

  /** Resolves when the modules are loaded; rejects with the reason, and the process has ended then. */
  static async start(
    modules: readonly string[],
    log: Log,
    artifacts: string | null = null,
  ): Promise<HandlerProcess> {
    const child = new HandlerProcess(log)
    const loaded = new Promise<void>((resolve, reject) => {
      child.#onLoaded = error => (error === null ? resolve() : reject(error))
    })
    child.ended.then(how =>
      child.#onLoaded(new UmbraError("E602", `The process ended while it loaded the handlers: ${how}.`)),
    )
    child.send({ type: "load", modules, artifacts })
    try {
      await loaded
      return child
    } catch (error) {
      await child.kill()
      throw error
    }
  }

  private constructor(log: Log) {
    this.#log = log
    this.#child = startProcess("worker/child/entry", {
      serialization: "advanced",
      stdio: ["ignore", 2, 2, "ipc"],
    })
    this.pid = this.#child.pid
    this.#child.on("message", message => this.#receive(message as FromChild))
    this.ended = new Promise(resolve => {
      const end = (how: string) => {
        this.isAlive = false
        for (const answer of this.#checks.values()) answer([])
        this.#checks.clear()
        resolve(how)
      }
      this.#child.once("exit", (code, signal) =>
        end(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`),
      )
      this.#child.once("error", error => end(error.message))
    })
  }

  send(message: ToChild): void {
    // A process that has just ended gets no message: `ended` reports its end.
    if (this.isAlive && this.#child.connected) this.#child.send(message, () => {})
  }

  /** The problems of a workflow, with the schemas of these handlers. */
  check(text: string, format: "json" | "yaml" | undefined): Promise<readonly Problem[]> {
    return new Promise(resolve => {
      if (!this.isAlive) {
        resolve([])
        return
      }
      const id = this.#nextCheck++
      this.#checks.set(id, resolve)
      this.send({ type: "check", id, text, format })
    })
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.ended
  }

  #receive(message: FromChild): void {
    if (message.type === "loaded") {
      for (const handler of message.handlers) this.handlers.set(handler.name, handler)
      this.#onLoaded(null)
    } else if (message.type === "refused")
      this.#onLoaded(new UmbraError(message.code as ErrorCode, message.message))
    else if (message.type === "checked") {
      this.#checks.get(message.id)?.(message.problems)
      this.#checks.delete(message.id)
    } else if (message.type === "lines") this.onLines(message.rows)
    else if (message.type === "log") this.#log[message.level](message.fields, message.message)
    else this.onAttempt(message)
  }
}
