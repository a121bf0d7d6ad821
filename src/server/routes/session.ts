/** Logins of people in browsers: a token is exchanged for a cookie. Programs send their token with each request. */
import { z } from "zod"
import { localOwner } from "../../core/facts.ts"
import { UmbraError } from "../../errors.ts"
import { type Admitting, type Caller, mustWait, Rate } from "../auth/caller.ts"
import { mustBeSameOrigin, type Sessions } from "../auth/sessions.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import { answers } from "../schemas/job.ts"
import * as schema from "../schemas/session.ts"

const { open } = operations("sessions")

/** Logins per second from one address, right and wrong ones. */
const LOGINS = 5

export interface SessionRoutes extends Pick<RouteContext, "isOpen"> {
  readonly sessions: Sessions
  readonly admitting: Admitting
}

export function sessionRoutes(app: App, { sessions, admitting, isOpen }: SessionRoutes): void {
  const logins = new Rate()

  app.post(
    "/session",
    open({
      summary: "Log in: exchange a token for a session cookie",
      description:
        "For browsers. The request must come from a page of this server (Origin or Sec-Fetch-Site), with the header `Umbra-Csrf: 1`. The session ends after 12 hours or with its token. A session whose cookie came with the request is ended.",
      body: schema.newSession,
      response: answers({ 201: schema.session }, ["E630", "E631", "E632", "E635", "E636", "E645"], true),
    }),
    async (request, reply) => {
      mustBeSameOrigin(request)
      mustWait(logins.take(request.ip, LOGINS))
      const caller = await admitting.callerWith(request, request.body.token)
      if (caller.isLocalToken === true)
        throw new UmbraError(
          "E630",
          "The local token is not for browsers. Create a token with `umbra token create`.",
        )
      const { cookie, expiresAt } = await sessions.create(request, caller)
      const view = sessionView({ ...caller, expiresAt, isSession: true }, false)
      return reply.code(201).header("set-cookie", cookie).send(view)
    },
  )

  app.get(
    "/session",
    open({
      summary: "Show who is logged in, and with which scopes",
      description:
        "Answers 200 also if nobody is logged in. An unknown token in the header Authorization is an error.",
      response: answers({ 200: schema.session }, ["E611", "E630", "E631", "E632", "E645"], true),
    }),
    async request => {
      const caller = await admitting.identifyCaller(request)
      return sessionView(caller, isOpen && request.headers.authorization === undefined)
    },
  )

  app.delete(
    "/session",
    open({
      summary: "Log out: end the session of the cookie",
      description: "Needs the same headers as the login. Without a session it only removes the cookie.",
      response: answers({ 204: z.null() }, ["E611", "E631"], true),
    }),
    async (request, reply) => {
      mustBeSameOrigin(request)
      const cookie = await sessions.end(request)
      return reply.code(204).header("set-cookie", cookie).send(null)
    },
  )
}

function sessionView(caller: Caller | null, isOpen: boolean): z.infer<typeof schema.session> {
  if (caller === null)
    return {
      login: "required",
      owner: null,
      scopes: [],
      name: null,
      expires_at: null,
      sees_other_owners: false,
    }
  const { owner, scopes, name, expiresAt, isSession } = caller
  return {
    login: isOpen ? "open" : isSession ? "session" : "token",
    owner,
    scopes: [...scopes],
    name,
    expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
    sees_other_owners: caller.everyOwner === true || (owner === localOwner && scopes.includes("admin")),
  }
}
