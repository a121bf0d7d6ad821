/** Carries out what the plan says. */

import { once } from "node:events"
import { createConnection } from "node:net"
import { setTimeout as delay } from "node:timers/promises"
import type { Fleet } from "./fleet.ts"
import type { Member } from "./member.ts"
import type { Fault } from "./plan.ts"

export class Faults {
  readonly #fleet: Fleet
  readonly #under = new Set<Promise<void>>()
  readonly #busy = new Set<string>()
  /** How often each kind was carried out. */
  readonly done = new Map<string, number>()

  constructor(fleet: Fleet) {
    this.#fleet = fleet
  }

  /** Answers false if something is being done to the same already. */
  begin(fault: Fault): boolean {
    const what = subjectOf(fault)
    if (this.#busy.has(what)) return false
    this.#busy.add(what)
    const kind =
      fault.what === "service" || fault.what === "network" ? `${fault.how} (${fault.service})` : fault.what
    this.done.set(kind, (this.done.get(kind) ?? 0) + 1)
    const under = this.#act(fault).finally(() => {
      this.#busy.delete(what)
      this.#under.delete(under)
    })
    this.#under.add(under)
    return true
  }

  /** Resolves when all is as it should be again. */
  async over(): Promise<void> {
    while (this.#under.size > 0) await Promise.all(this.#under)
  }

  async #act(fault: Fault): Promise<void> {
    switch (fault.what) {
      case "flush":
        return this.#flush()
      case "service":
        return this.#service(fault)
      case "network":
        return this.#network(fault)
      default:
        return actOn(this.#fleet.member(fault.member), fault)
    }
  }

  async #flush(): Promise<void> {
    const socket = createConnection(this.#fleet.redis.port, "127.0.0.1").on("error", () => {})
    socket.write("FLUSHALL\r\n")
    await Promise.race([once(socket, "data"), once(socket, "close"), delay(1000)])
    socket.destroy()
  }

  async #service({ how, service, ms }: Extract<Fault, { what: "service" }>): Promise<void> {
    const subject = this.#fleet[service]
    if (how === "pause") {
      process.kill(subject.pid(), "SIGSTOP")
      await delay(ms)
      process.kill(subject.pid(), "SIGCONT")
      return
    }
    await subject.kill(how === "kill" ? "SIGKILL" : "SIGINT")
    await delay(ms)
    await subject.restart()
  }

  async #network({ how, service, member, ms }: Extract<Fault, { what: "network" }>): Promise<void> {
    const { members } = this.#fleet
    const of = member === null ? members : [this.#fleet.member(member)]
    const ways = of.flatMap(({ parts }) => parts.ways.get(service) ?? [])
    for (const way of ways) {
      if (how === "drop") way.drop()
      else if (how === "delay") way.delay(DELAY_MS)
      else way.goSilent(how === "lose answers" ? "answers" : "everything")
    }
    if (how === "drop") return
    await delay(ms)
    for (const way of ways) way.heal()
  }
}

const DELAY_MS = 150

async function actOn(
  member: Member,
  fault: Extract<Fault, { what: "kill" | "pause" | "restart" }>,
): Promise<void> {
  if (fault.what === "pause") {
    member.signal("SIGSTOP")
    await delay(fault.ms)
    member.signal("SIGCONT")
    return
  }
  if (fault.what === "kill") {
    await member.kill()
    await delay(fault.ms)
  } else await member.stop()
  await member.start()
}

/** What cannot suffer two faults at once. */
export function subjectOf(fault: Fault): string {
  if (fault.what === "network") return `way ${fault.member ?? "all"} ${fault.service}`
  if (fault.what === "service") return fault.service
  return fault.what === "flush" ? "redis" : fault.member
}
