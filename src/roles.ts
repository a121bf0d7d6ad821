/**
 * What a process of Umbra does (S1): any of these together, all of them unless told.
 *
 * `api` serves the HTTP API, `webhooks` takes what providers send, `engine` owns partitions and decides what happens to
 * their jobs, `worker` runs nodes for the engine in its process, or for all engines on its Redis if it has none.
 */
import { UmbraError } from "./errors.ts"
import { readSettings, type SettingTable, settingNames } from "./settings.ts"

export const roleNames = ["api", "webhooks", "engine", "worker"] as const

export type Role = (typeof roleNames)[number]
export type Roles = ReadonlySet<Role>

export const rolesTable: SettingTable<{ readonly roles: readonly Role[] }> = {
  roles: {
    ...settingNames("UMBRA_ROLES"),
    default: roleNames,
    read: text => text.split(",").map(name => name.trim() as Role),
    wrong: names =>
      names.length > 0 && names.every(name => roleNames.includes(name))
        ? undefined
        : `some of ${roleNames.join(", ")}, separated by commas`,
  },
}

/** What is given, else what the environment says, else all. Throws E620 if one is not known. */
export function rolesOf(given?: readonly Role[], environment = process.env): Roles {
  const roles = given === undefined ? {} : { roles: given }
  return new Set(readSettings(rolesTable, roles, environment).roles)
}

/** Whoever owns nothing needs an engine in another process, and that one the same store. */
export function mustFit(roles: Roles, store: { readonly exclusive: boolean; readonly label: string }): void {
  if (roles.has("engine") || !store.exclusive) return
  throw new UmbraError(
    "E620",
    `A process without the role engine needs others that have it, and ${store.label} can be open in one process only. Use PostgreSQL (a postgres:// URL), or add the role engine.`,
  )
}
