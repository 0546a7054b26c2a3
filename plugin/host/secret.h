// A secret for a job that was given none, so that what we start ourselves never trusts strangers.
#pragma once

namespace megascale::host {

// Puts a random MEGASCALE_SECRET into this process's environment, which children inherit, unless it or
// MEGASCALE_SECRET_FILE or a configuration file (which may name one) is set. Call it before there are
// threads.
void ensure_job_secret();

}  // namespace megascale::host
