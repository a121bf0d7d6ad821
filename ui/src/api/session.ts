/** Who uses the dashboard, and what they may do. */
import { queryOptions } from "@tanstack/react-query"
import { ask } from "./http.ts"

export type Scope = "read" | "submit" | "manage" | "admin"

export interface Session {
  /** open: a local server without tokens. required: nobody is logged in. token: authenticated by something else than a cookie. */
  readonly login: "open" | "required" | "session" | "token"
  readonly owner: string | null
  readonly scopes: readonly Scope[]
  readonly name: string | null
  readonly expires_at: string | null
  /** May view the jobs of other owners. */
  readonly sees_other_owners: boolean
}

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => ask<Session>("/session", { signal }),
  staleTime: Number.POSITIVE_INFINITY,
})

export function may({ scopes }: Session, scope: Scope): boolean {
  return scopes.includes(scope) || scopes.includes("admin")
}

export function login(token: string): Promise<Session> {
  return ask<Session>("/session", { method: "POST", body: { token } })
}

export function logout(): Promise<void> {
  return ask<void>("/session", { method: "DELETE" })
}
