/** What is in deploy/ fits this release: paths, flags, variables, ports, times. No container runs here. */
import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { parse, parseAllDocuments } from "yaml"
import { root } from "../cli/umbra.ts"
import { serve, storeOf } from "../server/served.ts"
import { knownVariables, mustBeAccepted, mustBeRoles } from "./command.ts"

const read = (path: string) => readFileSync(join(root, "deploy", path), "utf8")
const run = promisify(execFile)

/** From SIGTERM until `umbra` is gone (docs/reference/server.md, Stopping). */
const LEAVE_SECONDS = 10
const PORT = 7070

/** Instructions, with their continued lines joined. */
function dockerfile(): { readonly instruction: string; readonly rest: string }[] {
  return read("Dockerfile")
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .filter(line => line !== "")
    .map(line => ({ instruction: line.split(" ")[0]!, rest: line.slice(line.indexOf(" ") + 1) }))
}

const listIn = (text: string): string[] => JSON.parse(text.slice(text.indexOf("[")))

describe("deploy/Dockerfile", () => {
  const all = dockerfile()
  const last = (name: string) => all.findLast(({ instruction }) => instruction === name)!.rest

  it("copies what is there and in its context, ends as a user that is not root, and starts with flags that there are", async () => {
    const sources = all
      .filter(({ instruction, rest }) => instruction === "COPY" && !rest.startsWith("--from"))
      .flatMap(({ rest }) => rest.split(" ").slice(0, -1))
    const context = readFileSync(join(root, ".dockerignore"), "utf8").split("\n")
    for (const source of sources) {
      expect(existsSync(join(root, source)), source).toBe(true)
      expect(context).toContain(`!${source.replace(/^\.\//, "")}`)
    }
    expect(sources).toContain("src")
    expect(last("USER")).toBe("node")
    expect(last("EXPOSE")).toBe(String(PORT))
    expect(listIn(last("ENTRYPOINT"))).toEqual(["umbra"])
    await mustBeAccepted(listIn(last("CMD")))
    const { bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    expect(read("Dockerfile")).toContain(`ln -s ../umbra/${bin.umbra} /app/node_modules/.bin/umbra`)
  })

  it("its health check passes on a server that lives and fails on one that does not", async () => {
    const served = await serve(await storeOf("PostgreSQL"), "--roles", "engine,worker")
    const [program, ...parameters] = listIn(last("HEALTHCHECK"))
    expect(program).toBe("node")
    const { port } = new URL(served.url)
    const check = () =>
      run(
        process.execPath,
        parameters.map(text => text.replace(String(PORT), port)),
      )
    await check()
    served.process.kill("SIGKILL")
    await served.process.ended
    await expect(check()).rejects.toMatchObject({ code: 1 })
  })
})

interface Service {
  readonly image: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly depends_on?: Readonly<Record<string, unknown>>
  readonly stop_grace_period?: string
}

describe("deploy/compose.yaml", () => {
  const { services } = parse(read("compose.yaml"), { merge: true }) as {
    services: Record<string, Service>
  }
  const own = Object.entries(services).filter(([, { image }]) => image === "umbra")

  it("has API, engine and worker beside PostgreSQL and Redis, with flags, variables and paths that there are", async () => {
    expect(Object.keys(services)).toEqual(
      expect.arrayContaining(["api", "engine", "worker", "postgres", "redis"]),
    )
    for (const [name, service] of own) {
      if (service.command !== undefined) await mustBeAccepted(service.command)
      for (const variable of Object.keys(service.environment ?? {}))
        expect(await knownVariables(), name).toContain(variable)
      for (const volume of service.volumes ?? [])
        expect(existsSync(join(root, "deploy", volume.split(":")[0]!)), volume).toBe(true)
      for (const port of service.ports ?? []) expect(port.split(":").at(-1)).toBe(String(PORT))
      for (const other of Object.keys(service.depends_on ?? {})) expect(services).toHaveProperty(other)
      expect(Number.parseInt(service.stop_grace_period!, 10), name).toBeGreaterThan(LEAVE_SECONDS)
    }
    expect(services.worker!.environment).not.toHaveProperty("UMBRA_DATABASE_URL")
    // The image's health check asks this port.
    expect(services.worker!.command!.slice(-2)).toEqual(["--port", "7070"])
    const handlers = services.worker!.command!.at(services.worker!.command!.indexOf("--handlers") + 1)!
    expect(existsSync(join(root, handlers.replace("/app/handlers", "examples/greeting")))).toBe(true)
  })
})

describe("deploy/systemd", () => {
  const files = readdirSync(join(root, "deploy/systemd"))
  const units = files.filter(name => name.endsWith(".service"))
  const variablesOf = (name: string) =>
    new Map(
      [...read(`systemd/${name}`).matchAll(/^(\w+)=(.*)$/gm)].map(([, variable, value]) => [
        variable!,
        value!,
      ]),
    )

  it.each(units)("%s starts with flags and variables that there are, and has time to end", async unit => {
    const text = read(`systemd/${unit}`)
    const setting = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(text)?.[1]
    const given = files.filter(
      name => name.endsWith(".env") && name.startsWith("worker-") === unit.includes("worker"),
    )
    expect(given.length).toBeGreaterThan(0)
    const [program, ...words] = setting("ExecStart")!.split(" ")
    expect(program).toBe("/usr/local/bin/umbra")
    for (const name of given) {
      const variables = variablesOf(name)
      const expanded = words.flatMap(word =>
        word.startsWith("$") ? (variables.get(word.slice(1))?.split(" ") ?? []) : [word],
      )
      await mustBeAccepted(expanded)
      mustBeRoles(variables.get("UMBRA_ROLES"))
      for (const variable of variables.keys())
        if (variable.startsWith("UMBRA_")) expect(await knownVariables(), name).toContain(variable)
    }
    expect(Number(setting("TimeoutStopSec"))).toBeGreaterThan(LEAVE_SECONDS)
    expect(setting("KillSignal")).toBe("SIGTERM")
    expect(setting("DynamicUser")).toBe("yes")
  })
})

// biome-ignore lint/suspicious/noExplicitAny: documents of another project's schema.
type Manifest = any

describe("deploy/kubernetes", () => {
  const manifests: Manifest[] = ["api", "engine", "worker"].flatMap(name =>
    parseAllDocuments(read(`kubernetes/${name}.yaml`)).map(document => {
      expect(document.errors).toEqual([])
      return document.toJS()
    }),
  )
  const ofKind = (kind: string) => manifests.filter(manifest => manifest.kind === kind)
  const deployments = ofKind("Deployment")

  it("is complete: a Deployment and a disruption budget for each role, a Service, all in the kustomization", () => {
    const { resources } = parse(read("kubernetes/kustomization.yaml"))
    const files = readdirSync(join(root, "deploy/kubernetes")).filter(name => name !== "kustomization.yaml")
    expect([...resources].sort()).toEqual(files.sort())
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    expect(parse(read("kubernetes/kustomization.yaml")).images).toEqual([{ name: "umbra", newTag: version }])
    expect(deployments.map(({ metadata }) => metadata.name)).toEqual(["api", "engine", "worker"])
    const labelsOf = (name: string) =>
      deployments.find(({ metadata }) => metadata.name === name).spec.template.metadata.labels
    for (const { metadata, spec } of [...deployments, ...ofKind("PodDisruptionBudget")])
      expect(spec.selector.matchLabels).toEqual(labelsOf(metadata.name))
    expect(ofKind("PodDisruptionBudget")).toHaveLength(3)
    const [service] = ofKind("Service")
    expect(service.spec.selector).toEqual(labelsOf("api"))
    expect(service.spec.ports[0].targetPort).toBe("http")
  })

  it.each(deployments.map(found => [found.metadata.name, found] as const))(
    "%s starts with flags and variables that there are, without rights, and has time to end",
    async (name, { spec }) => {
      const pod = spec.template.spec
      const [container] = pod.containers
      await mustBeAccepted(container.args)
      for (const { name: variable } of container.env ?? []) expect(await knownVariables()).toContain(variable)
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 })
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      })
      const pause = Number(container.lifecycle?.preStop?.exec.command[1] ?? 0)
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(pause + LEAVE_SECONDS)
      expect(JSON.stringify(container).includes("DATABASE")).toBe(false)
      expect(container.envFrom === undefined).toBe(name === "worker")
    },
  )

  it("probes ports and paths that a process with these roles serves", async () => {
    const store = await storeOf("PostgreSQL")
    const served: { container: (typeof deployments)[number]; url: string }[] = []
    for (const { spec } of deployments) {
      const [container] = spec.template.spec.containers
      if (container.args[0] !== "serve") continue
      const roles = container.args[container.args.indexOf("--roles") + 1]
      served.push({ container, url: (await serve(store, "--roles", roles)).url })
    }
    // All of them run: an API process is ready when there is an engine for its jobs.
    for (const { container, url } of served) {
      expect(container.ports).toEqual([{ name: "http", containerPort: PORT }])
      for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
        const { path, port } = container[probe].httpGet
        expect(port).toBe("http")
        await expect.poll(async () => (await fetch(`${url}${path}`)).status).toBe(200)
      }
    }
  })
})
