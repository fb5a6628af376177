/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the rows in the order in which they are looked at, with the words of the text form. Never fails. */
#include "cli/choice_json.h"

void tt_choice_write_json(struct tt_json *json, const struct tt_choice *choice)
{
    tt_json_begin_array(json, "table");
    for (uint32_t i = 0; i < choice->row_count; i++) {
        const struct tt_choice_row *row = &choice->rows[i];
        tt_json_begin_object(json, NULL);
        tt_json_text(json, "collective", tt_kind_word(row->kind));
        tt_json_text(json, "network", tt_choice_network_word(row->multicast));
        tt_json_count(json, "ranks", row->ranks);
        tt_json_count(json, "from_bytes", row->from_bytes);
        tt_json_text(json, "algorithm", tt_method_word(row->kind, row->method));
        tt_json_end_object(json);
    }
    tt_json_end_array(json);
}
