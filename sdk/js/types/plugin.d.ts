/// <reference path="./interfaces/aedile-maintenance-commands.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-job.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-logging.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-maintenance.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-metrics.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-state.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-storage.d.ts" />
/// <reference path="./interfaces/aedile-maintenance-types.d.ts" />
declare module 'aedile:maintenance/plugin@0.1.0' {
  export type * as AedileMaintenanceCommands010 from 'aedile:maintenance/commands@0.1.0'; // import aedile:maintenance/commands@0.1.0
  export type * as AedileMaintenanceJob010 from 'aedile:maintenance/job@0.1.0'; // import aedile:maintenance/job@0.1.0
  export type * as AedileMaintenanceLogging010 from 'aedile:maintenance/logging@0.1.0'; // import aedile:maintenance/logging@0.1.0
  export type * as AedileMaintenanceMetrics010 from 'aedile:maintenance/metrics@0.1.0'; // import aedile:maintenance/metrics@0.1.0
  export type * as AedileMaintenanceState010 from 'aedile:maintenance/state@0.1.0'; // import aedile:maintenance/state@0.1.0
  export type * as AedileMaintenanceStorage010 from 'aedile:maintenance/storage@0.1.0'; // import aedile:maintenance/storage@0.1.0
  export type * as AedileMaintenanceTypes010 from 'aedile:maintenance/types@0.1.0'; // import aedile:maintenance/types@0.1.0
  export * as maintenance from 'aedile:maintenance/maintenance@0.1.0'; // export aedile:maintenance/maintenance@0.1.0
}
