/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti plan` can print, one file a kind (plan_KIND.c). Each gets its kind as argv[0] and returns the exit
 * status. */
#ifndef TT_CLI_PLAN_H
#define TT_CLI_PLAN_H

int tt_plan_rdmc(int argc, char **argv);
int tt_plan_endpoints(int argc, char **argv);
int tt_plan_trigger(int argc, char **argv);

#endif
