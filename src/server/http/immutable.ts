/** Answers that never change, such as a full page of facts: a client may keep them for ever. */
import type { FastifyReply, FastifyRequest } from "fastify"

const FOREVER = "private, max-age=31536000, immutable"

/** true: the client has this answer, and gets 304 without a body. */
export function isKnown(request: FastifyRequest, reply: FastifyReply, tag: string): boolean {
  const etag = `"${tag}"`
  void reply.header("etag", etag).header("cache-control", FOREVER)
  return hasEtag(request, etag)
}

/** Does `If-None-Match` name this ETag? */
export function hasEtag({ headers }: FastifyRequest, etag: string): boolean {
  const known = headers["if-none-match"]?.split(",").map(each => each.trim().replace(/^W\//, ""))
  return known?.some(each => each === etag || each === "*") ?? false
}
