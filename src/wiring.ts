/** Wires the components of one process: engine, worker, pipelines, providers and feed. */

import { Artifacts } from "./artifacts/artifacts.ts"
import { withMovedFacts } from "./artifacts/moved-facts.ts"
import { contentPlace, noContentStore } from "./artifacts/open.ts"
import { artifactSettings as readArtifactSettings } from "./artifacts/settings.ts"
import type { PipelineNeeds } from "./broker/port.ts"
import { RoutedBroker } from "./broker/routed.ts"
import type { Plan } from "./definition/plan.ts"
import { systemClock } from "./engine/clock.ts"
import { mustReachWorkers } from "./engine/dispatch/pipeline-needs.ts"
import { Engine } from "./engine/engine.ts"
import { countStates } from "./engine/metrics.ts"
import { currentTask, type LiveJob } from "./engine/owner/live-job.ts"
import { mustBeFor } from "./engine/providers/providers.ts"
import type { JobCommand } from "./engine/remote/commands.ts"
import { dispatchedJobs, joinDispatched } from "./engine/remote/dispatched-jobs.ts"
import type { LiveMessages, MessagesQuery } from "./engine/remote/live-messages.ts"
import { liveOverlay, type Overlay, type OverlayQuery } from "./engine/remote/live-overlay.ts"
import { RemoteOverlays } from "./engine/remote/remote-overlays.ts"
import type { FiredTick } from "./engine/schedules/schedules.ts"
import { engineSettings as readEngineSettings, recordedRetryPolicy } from "./engine/settings.ts"
import { Live } from "./feed/live.ts"
import { feedSettings } from "./feed/settings.ts"
import { BulkOperations } from "./jobs/bulk/bulk.ts"
import { BulkForks } from "./jobs/bulk/forks.ts"
import { BulkLane } from "./jobs/bulk/lane.ts"
import { nodeExpectations } from "./jobs/fork/expectations.ts"
import { Forks } from "./jobs/fork/forks.ts"
import { Queries } from "./jobs/queries.ts"
import { Backfills } from "./jobs/schedules/backfill.ts"
import { ScheduleRequests } from "./jobs/schedules/schedules.ts"
import { Submissions } from "./jobs/submit.ts"
import { Watchers } from "./jobs/watchers.ts"
import { Why } from "./jobs/why/why.ts"
import { dataFolder, storeSharing } from "./journal/location.ts"
import { openJournal } from "./journal/open.ts"
import type { Journal } from "./journal/port/journal.ts"
import { type LogSink, silentLog } from "./log.ts"
import { adapterRegistry } from "./pipeline/adapters/index.ts"
import { Pipelines } from "./pipeline/pipelines.ts"
import { type AdapterRegistry, FleetAdapters } from "./pipeline/registry/registry.ts"
import { pipelineSettings } from "./pipeline/settings.ts"
import { ExternalServices } from "./provider/services.ts"
import { checkRoles, type Roles, readRoles, roleNames } from "./roles.ts"
import { redisParts, type UmbraOptions } from "./umbra-options.ts"
import { version } from "./version.ts"
import { type WorkerArtifacts, workerArtifacts } from "./worker/artifacts.ts"
import { LogBuffer } from "./worker/logs/buffer.ts"
import { FleetCatalog, HandlerRegistry } from "./worker/registry.ts"
import { TaskRunner } from "./worker/runner.ts"
import { type WorkerSettings, workerSettings } from "./worker/settings.ts"

export interface WiringParts {
  readonly journal: Journal
  readonly location: string | Journal
  readonly handlers: HandlerRegistry
  readonly adapters: AdapterRegistry
  readonly services: ExternalServices
  readonly settings: WorkerSettings
  readonly options: UmbraOptions
  readonly roles: Roles
  readonly content: WorkerArtifacts
}

/** Opens the store and reads the options. */
export async function openParts(location: string | Journal, options: UmbraOptions): Promise<WiringParts> {
  const settings = workerSettings(options.worker)
  const { clock = systemClock, log } = options
  const roles = readRoles(options.roles ?? roleNames)
  const services = new ExternalServices(options, settings, () => clock.now())
  const handlers = new HandlerRegistry([...services.handlers(), ...(options.handlers ?? [])])
  const adapters = adapterRegistry(options, settings)
  const artifactSettings = readArtifactSettings(options.artifacts)
  const content = workerArtifacts(
    contentPlace(artifactSettings.location, dataFolder(location)),
    artifactSettings,
    settings,
  )
  if (artifactSettings.outputBytes !== null && content.content === null) throw noContentStore()
  // Checked first, so that no folder is created in vain.
  checkRoles(roles, storeSharing(location))
  const stored = typeof location === "string" ? await openJournal(location, log && { log }) : location
  const journal = withMovedFacts(stored, {
    ...{ content: content.content, outputBytes: artifactSettings.outputBytes, now: () => clock.now() },
    onFailure: error => log?.warn({ error: String(error) }, "an output was not moved to the artifact store"),
  })
  return { journal, location, handlers, adapters, services, settings, options, roles, content }
}

export function wire({ journal, location, services, settings, options, roles, ...parts }: WiringParts) {
  const log = options.log ?? silentLog
  const clock = options.clock ?? systemClock
  const engineSettings = readEngineSettings(options.engine)
  const now = () => clock.now()
  const watchers = new Watchers()
  const workers = () => engine.workers.list()
  const handlers = new FleetCatalog(parts.handlers, {
    ...{ runsNodes: roles.has("worker"), workers },
    refresh: () => engine.refreshWorkers(),
  })
  const adapters = new FleetAdapters(parts.adapters, workers)
  const { served } = handlers
  const { secrets } = services
  const storeLogs: LogSink = rows => journal.logs.write(rows)
  const logs = new LogBuffer({
    ...{ sink: storeLogs, maxBytes: settings.logBufferBytes, log },
  })
  const { capturesConsole } = options
  const { content, ...artifactParts } = parts.content
  const artifacts = new Artifacts({ rows: journal.artifacts, content, ...artifactParts, now })
  const sweeper = artifacts.sweeper()
  const own = new TaskRunner({
    ...{ handlers: served, settings, log, logs, now, secrets, artifacts: parts.content },
    ...(capturesConsole !== undefined && { capturesConsole }),
  })
  const runner = options.runner?.(own) ?? own
  const pipelines = new Pipelines({
    ...{ journal, secrets, clock, log },
    adapters: parts.adapters,
    settings: pipelineSettings(options.pipeline),
    lossLimit: engineSettings.lossLimit,
    workers: () => broker.remote,
    plans: { get: (owner, name, wanted) => engine.plans.get(owner, name, wanted) },
    queries: { fold: id => queries.fold(id), row: id => queries.row(id) },
    submit: (workflow, input, given, admit) => submissions.submit(workflow, input, given, admit),
    live: async query => ownMessages(query) ?? (await overlays.messages(query)),
  })
  const ownMessages = (query: MessagesQuery): LiveMessages | null =>
    engine.owns(query.jobId) ? pipelines.inFlight(query) : null
  const providers = services.calls(log, artifacts)
  const mustFit = (plan: Plan, owner: string) => {
    mustBeFor(plan, owner, providers)
    if (journal.capabilities.exclusive) mustReachWorkers(plan, needs => broker.lacks(needs))
  }
  const { feed, capabilities } = journal
  const store = { id: async () => (await feed.position()).store, label: capabilities.label }
  const command = (jobId: string, given: JobCommand) => engine.commands.command(jobId, given)
  const engine: Engine<RoutedBroker> = new Engine({
    journal,
    location: journal.capabilities.exclusive || typeof location !== "string" ? null : location,
    settings: engineSettings,
    clock,
    log,
    broker: host => {
      const { concurrency } = settings
      const lanes = [
        pipelines.lane(host, { isIdle: options.runsPipelines === false }),
        new BulkLane({
          ...{ host, journal, clock, log, command },
          live: id => engine.live(id),
          list: filter => queries.shownRows(filter),
          fork: (...given) => bulk.forks.fork(...given),
          backfills: () => backfills,
        }),
      ]
      return new RoutedBroker({
        runner,
        host,
        concurrency,
        redis: redisParts(options, { log, store, storeLogs }),
        lanes,
      })
    },
    observer: {
      changed: job => live.changed(job),
      ended: job => live.ended(job),
      lost: partition => live.lost(partition),
      progressed: (job, node) => live.progressed(job, node),
      followed: isFollowed => live.followed(isFollowed),
      fired: fire => live.fired(fire),
      released: () => live.released(),
    },
    worker: () => ({
      version,
      handlers: handlers.offered,
      concurrency: settings.concurrency,
      running: broker.running,
      queued: broker.queued,
    }),
    providers,
    maxOutputBytes: settings.maxOutputBytes,
    claimExecution: (jobId, endedAt) => pipelines.claim(jobId, endedAt),
    mustFit,
    lacks: needs => broker.lacks(needs),
    takesPartitions: roles.has("engine"),
    artifacts: sweeper && {
      step: () => sweeper.step(),
      sweepMs: artifactParts.settings.sweepSeconds * 1000,
    },
    startsJobs: options.startsJobs,
  })
  const { broker } = engine.partitionOwner
  const webhooks = services.webhooks({
    store: journal.providers,
    inboxChanged: partitions => engine.inboxChanged(partitions),
  })
  const live = new Live({
    journal,
    plans: engine.plans,
    log,
    settings: feedSettings(options.feed),
    id: engine.id,
    leaseMs: engineSettings.leaseSeconds * 1000,
    now,
    retentionSeconds: engineSettings.retentionSeconds,
    watchers,
    follow: isFollowing => engine.follow(isFollowing),
    beatNow: () => engine.beatNow(),
  })
  const submissions = new Submissions({
    ...{ journal, engine, handlers, adapters, now },
    mustBeFor: (plan, owner) => mustBeFor(plan, owner, providers),
    ttlSeconds: engineSettings.ttlSeconds,
    retryDefaults: recordedRetryPolicy(engineSettings),
    claimExecution: jobId => pipelines.claim(jobId),
    mustFit,
  })
  const overlayParts = {
    broker,
    owner: engine.partitionOwner.taskLocations,
    lacks: (needs: PipelineNeeds) => broker.lacks(needs),
    now,
  }
  const ownOverlay = (query: OverlayQuery): Overlay | null => {
    if (engine.isStarting(query.jobId))
      return query.node === undefined
        ? { at: now(), nodes: [], engine: "starting" }
        : { at: now(), items: [] }
    return engine.owns(query.jobId) ? liveOverlay(engine.live(query.jobId), query, overlayParts) : null
  }
  const overlays = new RemoteOverlays(journal.feed, {
    overlay: ownOverlay,
    dispatched: query => {
      const partitions = [...engine.partitionOwner.owned.keys()]
      return partitions.length === 0
        ? null
        : { ...dispatchedJobs(engine.partitionOwner.jobs, query), partitions }
    },
    messages: ownMessages,
  })
  const queries = new Queries({
    journal,
    plans: engine.plans,
    largeOutputBytes: engineSettings.largeOutputBytes,
    live: id => engine.live(id),
    overlay: (query, patienceMs) => {
      const own = ownOverlay(query)
      return own === null ? overlays.query(query, patienceMs) : Promise.resolve(own)
    },
    dispatched: async query => {
      const own = dispatchedJobs(engine.partitionOwner.jobs, query)
      return joinDispatched([own, ...(await overlays.dispatched(query, engine.remotePartitions()))])
    },
    awayOwner: id => engine.awayOwner(id),
    holder: task => broker.remote?.holder(task) ?? null,
    now,
  })
  const forks = new Forks({
    registrations: submissions.registrations,
    handlers,
    fold: id => queries.fold(id),
    readOwner: async id => (await journal.readJob(id))?.owner ?? null,
    findRepeated: (content, options) => submissions.findRepeated(content, options),
    submit: fork => submissions.submitFork(fork),
    statistics: of => nodeExpectations(queries.statistics, of),
  })
  const why = new Why({
    ...{ journal, plans: engine.plans, queries, now },
    slotLimit: provider => providers.terms(provider)?.concurrency ?? null,
    defect: (jobId, nodes) => engine.reasons.defect(jobId, nodes),
  })
  const bulk = new BulkOperations({
    ...{ journal, command },
    list: filter => queries.shownRows(filter),
    live: id => engine.live(id),
    submissions,
    forks: new BulkForks({ journal, forks }),
  })
  const fired = (fire: FiredTick) => {
    engine.metrics.fired(fire)
    live.fired(fire)
  }
  const schedules = new ScheduleRequests({
    ...{ journal, firing: engine.schedules, limits: engine.schedules.limits, now, fired },
    submit: (...given) => submissions.submit(...given),
    startBackfill: (...given) => bulk.startBackfill(...given),
  })
  const backfills = new Backfills({
    ...{ journal, now, fired },
    submit: (...given) => submissions.submitOnce(...given),
    admit: limits => bulk.forks.admit(limits),
  })
  return {
    handlers,
    adapters,
    forks,
    bulk,
    schedules,
    engine,
    why,
    broker,
    queries,
    submissions,
    pipelines,
    webhooks,
    watchers,
    live,
    overlays,
    logs,
    states: () => countStates(engine.partitionOwner.jobs.values(), broker, now()),
    artifacts,
  }
}

/** Does its handler run now? */
export function isRunning(
  broker: RoutedBroker,
  job: LiveJob,
  task: Parameters<typeof currentTask>[1],
): boolean {
  const current = currentTask(job, task)
  return current !== null && broker.runningTask(current) !== null
}
