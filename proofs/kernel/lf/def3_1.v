(* lf.def3.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Definition 3.1.
   "s_t^U := (1/B) sum_{i=0}^B g_t(x_i)" is the mean gradient over a batch of B and an unbiased estimate of grad f_t. *)
From kernel Require Import definitions lemmas.

(* the gradients of n records, drawn one by one at random; the sum over the draws i = 0, ..., B as printed has B + 1 terms.
   By linearity its mean is the sum of the means: (1/B) sum_{i=0}^B E g(x_i). *)
Definition true_signal (d : nat) (gs : list vec) : vec := average d gs.
Definition mean_of_printed (d B : nat) (gs : list vec) : vec :=
  scale (/ INR B) (sum d (map (fun _ => average d gs) (seq 0 (S B)))).
Definition mean_of_right (d B : nat) (gs : list vec) : vec :=
  scale (/ INR B) (sum d (map (fun _ => average d gs) (seq 1 B))).
Definition printed : Prop := forall d B gs, (0 < B)%nat -> gs <> [] -> Forall (fun g => length g = d) gs ->
  mean_of_printed d B gs = true_signal d gs.
Definition correction : Prop := forall d B gs, (0 < B)%nat -> gs <> [] -> Forall (fun g => length g = d) gs ->
  mean_of_right d B gs = true_signal d gs.

Lemma sum_same d v : length v = d -> forall l : list nat, sum d (map (fun _ => v) l) = scale (INR (length l)) v.
Proof.
  intros e l. induction l as [|x l IH].
  - simpl. subst d. clear. induction v as [|a v IH]; [reflexivity|]. simpl in *. unfold zero in *. simpl. rewrite IH. f_equal. ring.
  - cbn [map length]. change (sum d (v :: ?t)) with (add v (sum d t)). unfold sum in *. cbn [fold_right]. rewrite IH, S_INR.
    clear. generalize (INR (length l)). intro c. induction v as [|a v IH]; [reflexivity|]. unfold add, scale in *. simpl. rewrite IH. f_equal. ring.
Qed.
Lemma scale_scale a b v : scale a (scale b v) = scale (a * b) v.
Proof. unfold scale. rewrite map_map. apply map_ext. intro. ring. Qed.
(* B = 1, two records with the gradients 1 and 2: 3, not 3/2 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat 1%nat [[1]; [2]] ltac:(lia) ltac:(discriminate) ltac:(repeat constructor)).
  unfold mean_of_printed, true_signal, average in claim. cbv [sum map fold_right add zip scale zero repeat seq length INR] in claim. injection claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d B gs B0 ne F. unfold mean_of_right, true_signal. rewrite sum_same by (apply length_average, F).
  rewrite seq_length, scale_scale, Rinv_l by (apply not_0_INR; lia). apply scale_one.
Qed.
