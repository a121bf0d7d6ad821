/** Answers with long lists, serialized in turns with other work. */
import type { FastifyReply } from "fastify"
import { inTurns, type Work } from "../../turns.ts"

/** Entries of a list that are serialized without yielding. */
const PIECE = 200

/** For an answer with long lists: a graph of 20,000 nodes takes 50 ms to serialize. */
export async function sendInTurns<T extends object>(reply: FastifyReply, value: T): Promise<T> {
  const text = await inTurns(serialization(value))
  reply.type("application/json; charset=utf-8").serializer((whole: string) => whole)
  return reply.send(text) as unknown as T
}

/** As `JSON.stringify`, but yields to the event loop after each part of a list that is a member of `value`, or of its members. */
function* serialization(value: object): Work<string> {
  const members: string[] = []
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue
    members.push(`${JSON.stringify(key)}:${yield* text(member)}`)
  }
  return `{${members.join()}}`
}

function* text(member: unknown): Work<string> {
  if (Array.isArray(member)) return yield* list(member)
  const isPlain = typeof member === "object" && member !== null && !("toJSON" in member)
  return isPlain ? yield* serialization(member) : JSON.stringify(member)
}

function* list(items: readonly unknown[]): Work<string> {
  const pieces: string[] = []
  for (let i = 0; i < items.length; i += PIECE) {
    pieces.push(JSON.stringify(items.slice(i, i + PIECE)).slice(1, -1))
    yield
  }
  return `[${pieces.join()}]`
}
