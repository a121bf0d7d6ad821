import { fileURLToPath } from "node:url"

/** Where the build puts the dashboard: beside the built modules. From sources it is that of the last build. */
export const builtDashboard = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../dist/ui" : "./ui", import.meta.url),
)
