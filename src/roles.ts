/**
 * The roles of an Umbra process (S1): any combination; default: all.
 *
 * `api` serves the HTTP API, `webhooks` receives the requests of providers, `engine` owns partitions and decides on their
 * jobs, `worker` runs nodes for the engine in its process, or for all engines on its Redis if it has none.
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

/** The given roles, otherwise the environment variable, otherwise all. Throws E620 if one is not known. */
export function readRoles(overrides?: readonly Role[], environment = process.env): Roles {
  const roles = overrides === undefined ? {} : { roles: overrides }
  return new Set(readSettings(rolesTable, roles, environment).roles)
}

/** A process that owns nothing needs an engine in another process, with the same store. */
export function checkRoles(
  roles: Roles,
  store: { readonly exclusive: boolean; readonly label: string },
): void {
  if (roles.has("engine") || !store.exclusive) return
  throw new UmbraError(
    "E620",
    `A process without the role engine needs others that have it, and ${store.label} can be open in one process only. Use PostgreSQL (a postgres:// URL), or add the role engine.`,
  )
}
