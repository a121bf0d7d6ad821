/** What goes wrong and when, as data drawn from a seed: the same seed gives the same plan. */
import { type Random, randomFrom } from "../crash/random.ts"
import { members } from "./fleet.ts"
import type { Kind, Service } from "./member.ts"

export type Network = "drop" | "delay" | "lose everything" | "lose answers"

export type Fault =
  /** SIGKILL, and another process after `ms`. */
  | { readonly what: "kill"; readonly member: string; readonly ms: number }
  /** SIGSTOP, and SIGCONT after `ms`. */
  | { readonly what: "pause"; readonly member: string; readonly ms: number }
  /** SIGTERM, and another process when it has ended. */
  | { readonly what: "restart"; readonly member: string }
  | {
      readonly what: "network"
      readonly how: Network
      readonly service: Service
      /** null: all of them. */
      readonly member: string | null
      readonly ms: number
    }
  /** PostgreSQL ends in order, or is killed; Redis is killed and comes back empty. */
  | {
      readonly what: "service"
      readonly how: "restart" | "kill" | "pause"
      readonly service: Service
      readonly ms: number
    }
  | { readonly what: "flush" }

export interface Step {
  /** From the beginning of the campaign. */
  readonly atMs: number
  readonly fault: Fault
}

interface Draw {
  readonly weight: number
  readonly isOfProcess?: true
  draw(random: Random): Fault
}

/** How often each is drawn. */
const draws: Readonly<Record<string, Draw>> = {
  "kill an engine": { weight: 5, isOfProcess: true, draw: random => kill(random, "engine") },
  "kill a worker": { weight: 5, isOfProcess: true, draw: random => kill(random, "worker") },
  "kill an API process": { weight: 2, isOfProcess: true, draw: random => kill(random, "api") },
  "pause an engine": { weight: 3, isOfProcess: true, draw: random => pause(random, "engine") },
  "pause a worker": { weight: 4, isOfProcess: true, draw: random => pause(random, "worker") },
  "pause an API process": { weight: 1, isOfProcess: true, draw: random => pause(random, "api") },
  "restart an engine": {
    weight: 2,
    isOfProcess: true,
    draw: random => ({ what: "restart", member: one(random, "engine") }),
  },
  "restart a worker": {
    weight: 2,
    isOfProcess: true,
    draw: random => ({ what: "restart", member: one(random, "worker") }),
  },
  "restart an API process": {
    weight: 1,
    isOfProcess: true,
    draw: random => ({ what: "restart", member: one(random, "api") }),
  },
  "restart PostgreSQL": { weight: 1, draw: random => service(random, "postgres", "restart") },
  "kill PostgreSQL": { weight: 1, draw: random => service(random, "postgres", "kill") },
  "pause PostgreSQL": { weight: 1, draw: random => service(random, "postgres", "pause") },
  "kill Redis": { weight: 2, draw: random => service(random, "redis", "kill") },
  "pause Redis": { weight: 1, draw: random => service(random, "redis", "pause") },
  "flush Redis": { weight: 3, draw: () => ({ what: "flush" }) },
  "a way to Redis": { weight: 4, draw: random => network(random, "redis", false) },
  "a way to PostgreSQL": { weight: 3, draw: random => network(random, "postgres", false) },
  "all ways to Redis": { weight: 1, draw: random => network(random, "redis", true) },
  "all ways to PostgreSQL": { weight: 1, draw: random => network(random, "postgres", true) },
}

/** Of the time: then processes alone suffer. A flush, for one, makes engines look for everything, and so hides what they miss. */
const LAST_PART = 0.2

/** Every kind comes once, in some order, before any comes again as chance will have it. */
export function plan(
  seed: number,
  options: { readonly ms: number; readonly everyMs: number },
): readonly Step[] {
  const random = randomFrom(seed)
  const kinds = Object.values(draws)
  const bag = kinds.flatMap(kind => new Array<(typeof kinds)[number]>(kind.weight).fill(kind))
  const first = [...kinds]
  const last = bag.filter(({ isOfProcess }) => isOfProcess === true)
  const steps: Step[] = []
  for (let atMs = 0; atMs < options.ms; atMs += random.between(0, 2 * options.everyMs)) {
    const isLast = atMs > (1 - LAST_PART) * options.ms
    const early = first.splice(random.between(0, first.length - 1), 1)[0] ?? random.pick(bag)
    const next = isLast ? random.pick(last) : early
    steps.push({ atMs, fault: next.draw(random) })
  }
  return steps
}

export function describeFault(fault: Fault): string {
  switch (fault.what) {
    case "flush":
      return "flush redis"
    case "service":
      return `${fault.how} ${fault.service} for ${fault.ms} ms`
    case "network":
      return `${fault.how} between ${fault.member ?? "all"} and ${fault.service} for ${fault.ms} ms`
    case "restart":
      return `restart ${fault.member}`
    default:
      return `${fault.what} ${fault.member} for ${fault.ms} ms`
  }
}

function kill(random: Random, kind: Kind): Fault {
  return { what: "kill", member: one(random, kind), ms: random.between(0, 2000) }
}

/** Most of the time for longer than anybody waits for it. */
function pause(random: Random, kind: Kind): Fault {
  return { what: "pause", member: one(random, kind), ms: random.between(2500, 9000) }
}

function service(random: Random, name: Service, how: "restart" | "kill" | "pause"): Fault {
  return { what: "service", how, service: name, ms: random.between(0, 2500) }
}

function network(random: Random, name: Service, isAll: boolean): Fault {
  const how = random.pick(["drop", "delay", "lose everything", "lose answers"] as const)
  const kind = name === "redis" ? random.pick(["engine", "worker"] as const) : "engine"
  const member = isAll ? null : one(random, kind)
  return { what: "network", how, service: name, member, ms: random.between(200, isAll ? 2500 : 5000) }
}

function one(random: Random, kind: Kind): string {
  return random.pick(members.filter(member => member.kind === kind)).name
}
